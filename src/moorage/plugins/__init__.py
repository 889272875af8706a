"""The in-tree plugins, one module each. They know views, not the engine, and not each other."""
