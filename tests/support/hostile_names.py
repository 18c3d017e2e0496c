"""Names that data may have, and that pages must show as text."""

HOSTILE = [
    "<script>document.title = 'broken'</script>",
    "</script><img src=x onerror=\"document.title = 'broken'\">",
    "<!--<script>",
    "]]>--></style><b>",
    "'\"><svg onload=alert(1)>",
    "&lt;&amp;&#60;",
    "javascript:alert(1)",
    "${alert(1)} {{7*7}}",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "\u202etxt.exe",
    "nul\0, bell\a, escape\x1b[2J, return\r",
    "two\nlines\tand\u2028more",
    "half \ud800 of a character",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "long" * 200,
    "many words " * 60,
    "",
]
