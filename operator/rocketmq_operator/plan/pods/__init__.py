"""Pods of any resource: their observation, why they are not ready, and the handling of lost ones."""
