"""Verdicts and codes in words: pages of codes, reasons as data, sentences."""
