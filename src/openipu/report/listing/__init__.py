"""The reports of a folder as a list: in the terminal, as JSON, and as a page with links."""

from openipu.report.listing.entries import Entry, describe_entries, find_profiles, format_date, list_reports
from openipu.report.listing.page import LIST_NAME, MOST_NEW_PAGES, write_list, write_missing_pages

__all__ = [
    "LIST_NAME",
    "MOST_NEW_PAGES",
    "Entry",
    "describe_entries",
    "find_profiles",
    "format_date",
    "list_reports",
    "write_list",
    "write_missing_pages",
]
