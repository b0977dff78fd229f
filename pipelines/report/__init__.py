"""Reports: tables on the console and self-contained HTML files."""

from pipelines.report.html import ReportPage, write_report
from pipelines.report.skew import print_skew, write_skew_report
from pipelines.report.tables import print_metrics

__all__ = ["ReportPage", "print_metrics", "print_skew", "write_report", "write_skew_report"]
