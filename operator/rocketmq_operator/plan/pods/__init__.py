"""Pods of any resource: what was observed of them, why they are not ready, and what to do with lost ones."""
