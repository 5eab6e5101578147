"""Integer programs, solved by HiGHS."""
