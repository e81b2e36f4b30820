"""From plain values to HTML files, without Spark.

`values` say what a report needs, `page` renders it, `files` writes it.
"""
