"""Reports: tables on the console and self-contained HTML files."""

from pipelines.report.against import compared
from pipelines.report.console import print_evaluation
from pipelines.report.html import ReportPage, write_report
from pipelines.report.skew_report import print_skew, write_skew_report

__all__ = [
    "ReportPage",
    "compared",
    "print_evaluation",
    "print_skew",
    "write_report",
    "write_skew_report",
]
