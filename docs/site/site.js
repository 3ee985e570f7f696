// Behind the widgets' script. A page that was opened as a file may not fetch another one, so there
// the search shows titles alone.
// @ts-ignore: a constant of the script that Sphinx writes
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
