"""The grammar of the layout language: ``layout.lark``, package data that ``ppdsl.parsing`` reads."""
