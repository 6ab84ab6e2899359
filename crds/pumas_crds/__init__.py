"""The resources of Pumas Serving as types: what a team writes, what it is told, what pods report.

The five parties that read them (operator, router, worker, local mode, the generated CRD) import
these types and nothing of each other. This package imports pydantic only.
"""
