"""The flags of `moorage scheduler` that kube-scheduler does not have.

Owns names, kinds, defaults and texts, as data, in the order of the help. What they mean is in
`options`.
"""

from moorage.app.flag_values import BOOL, INT, QUANTITY, STRING
from moorage.app.flags import Flag, Section

MOORAGE = Section(
    "Moorage",
    (
        Flag(
            "config-from-configmap",
            STRING,
            "Read the configuration from a ConfigMap, given as namespace/name[:key], instead of "
            "a file. Without a key, the ConfigMap must hold exactly one.",
        ),
        Flag(
            "explain-annotations",
            BOOL,
            "Write how each decision came about to the pod, in annotations as "
            "kube-scheduler-simulator writes them, for the best nodes only. Needs the right to "
            "patch pods.",
        ),
        Flag(
            "explain-page",
            BOOL,
            "Serve a page to look at nodes, queue, decisions and explanations, at /explain/ on the "
            "secure port.",
        ),
        Flag(
            "ledger", STRING, "Keep the ledger of decisions in this directory as well as in memory."
        ),
        Flag(
            "ledger-memory",
            QUANTITY,
            "How much memory the ledger of decisions may take; the oldest decisions are forgotten "
            "first. 0 keeps no ledger.",
            default="16Mi",
        ),
        Flag(
            "legacy-algorithm-provider",
            STRING,
            "Schedule with the plugins of an algorithm provider of Kubernetes 1.21: "
            "DefaultProvider or ClusterAutoscalerProvider.",
        ),
        Flag(
            "legacy-policy-config-file",
            STRING,
            "Schedule as a Policy file of Kubernetes 1.22 or older says.",
        ),
        Flag(
            "legacy-policy-configmap",
            STRING,
            "Schedule as the Policy in a ConfigMap says, given as namespace/name; the key is "
            "policy.cfg.",
        ),
        Flag(
            "max-connections",
            INT,
            "How many connections the secure port has at once. Beyond that, the one that has been "
            "idle longest is closed for a new one.",
            default="512",
        ),
        Flag(
            "max-connections-per-address",
            INT,
            "The same for connections from one IPv4 address or one IPv6 /64 network.",
            default="256",
        ),
        Flag(
            "shadow",
            BOOL,
            "Decide, but bind, evict and write nothing: compare with the scheduler in charge.",
        ),
        Flag(
            "watch-config",
            BOOL,
            "Take over a changed configuration file without a restart.",
            default="true",
        ),
    ),
)
