"""`autotune report`: one self-contained HTML file. Figures are pure functions of `ReportData`."""
