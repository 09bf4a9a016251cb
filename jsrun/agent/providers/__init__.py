"""Providers: adapters to models, and providers around providers. Each module is imported by its own name."""
