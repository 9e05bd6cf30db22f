"""The colors of the page, by meaning: those of the pictures, for light and dark paper."""

from __future__ import annotations

LIGHT = {
    "paper": "#fefefe",
    "ink": "#1f2933",
    "border": "#98a4b3",
    "title": "#e6ebf2",
    "accent": "#0069a8",
    "opcode": "#1b4b8f",
    "modifier": "#4d647c",
    "register": "#964b00",
    "number": "#0d726a",
    "label": "#6a3d9a",
    "comment": "#56616e",
    "error": "#b3261e",
    "warning": "#9a5b00",
    "info": "#0069a8",
    "hit": "#8b3a80",
    "heat": "#e66101",
}
DARK = {
    "paper": "#14181d",
    "ink": "#dbe2ea",
    "border": "#56626f",
    "title": "#28313b",
    "accent": "#57b2ee",
    "opcode": "#8fbcff",
    "modifier": "#9db1c6",
    "register": "#f2b173",
    "number": "#67d6c8",
    "label": "#cda8f5",
    "comment": "#a3aeba",
    "error": "#ff8f85",
    "warning": "#ffc15e",
    "info": "#57b2ee",
    "hit": "#e08fd5",
    "heat": "#94500a",
}
