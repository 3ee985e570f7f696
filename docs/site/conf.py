"""Sphinx's settings. What Sphinx reads is laid out by lesson_pages.py."""

import contextlib
import io

from docs.site.address import address

ADDRESS = address()

with contextlib.redirect_stdout(io.StringIO()):  # it says that it draws no cards; they are there
    import sphinxext.opengraph  # noqa: F401

project = "A course on Triton"
html_title = project
author = ""
language = "en"

extensions = ["myst_nb", "sphinx_copybutton", "sphinxext.opengraph"]
nb_execution_mode = "off"  # a lesson is never run here: its outputs are committed
nb_merge_streams = True
nb_code_prompt_show = "What comes out"  # of a cell whose outcome was to be predicted
nb_code_prompt_hide = "What comes out"
suppress_warnings = ["misc.highlighting_failure"]  # then the code has no color, which does no harm
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline"]

html_theme = "sphinx_book_theme"
html_favicon = "favicon.svg"
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_permalinks_icon = "#"
html_context = {"default_mode": "auto"}
html_theme_options = {
    "home_page_in_toc": False,
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navbar_persistent": [],
    "navigation_with_keys": False,  # the arrow keys step through a replay
    "search_bar_text": "Search the course",
    "extra_footer": "",
}
copybutton_selector = "div.highlight pre, .in-your-lab code"
copybutton_exclude = ".linenos"

# What a search engine and a shared link show of a page: its first sentences, and a picture.
ogp_enable_meta_description = True
ogp_site_url = ADDRESS.site and f"{ADDRESS.site}/"
ogp_social_cards = {"enable": False}
ogp_image = "cards/course.png" if ADDRESS else ""
ogp_image_alt = "A step of the course: a kernel, and what became of it"
ogp_custom_meta_tags = ['<meta name="twitter:card" content="summary_large_image" />']
if ADDRESS:
    extensions.append("sphinx_sitemap")
    html_baseurl = ogp_site_url
    sitemap_url_scheme = "{link}"
    link = {"name": "Repository", "url": ADDRESS.repository, "icon": "fa-solid fa-code"}
    html_theme_options["icon_links"] = [link]
