"""Reports: tables on the console and self-contained HTML files."""

from pipelines.report.against import compared
from pipelines.report.console import print_evaluation
from pipelines.report.html import ReportPage, write_report
from pipelines.report.online_report import print_online, write_online_report
from pipelines.report.skew_report import print_skew, write_skew_report

__all__ = [
    "ReportPage",
    "compared",
    "print_evaluation",
    "print_online",
    "print_skew",
    "write_online_report",
    "write_report",
    "write_skew_report",
]
