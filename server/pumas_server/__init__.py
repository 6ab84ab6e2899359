"""The two processes of the data path: the router, and the worker in every serving pod.

They share the pure packages (`contract`, `capabilities`, `provider`) and never import each other.
"""
