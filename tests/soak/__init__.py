"""`make soak`: whole processes under churn and faults, and what becomes of their memory."""
