"""The neutral harness: one plain tool loop, with the same prompt and tools for every model.

``python -m builtin.harness --model openai/gpt-5.5 < prompt`` in a workspace. Standard library only.
"""
