"""What an evaluation found: a table for the screen and one HTML file for everybody."""

from pipelines.report.html import write_report
from pipelines.report.tables import print_metrics

__all__ = ["print_metrics", "write_report"]
