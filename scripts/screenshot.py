#!/usr/bin/env python3
"""Makes a picture of the chat, for the README: runs the program in a tmux of its own, types into it, and draws what is
on its screen as an SVG.

    scripts/screenshot.py [--columns N] [--rows N] [--say TEXT]... [--keys KEY]... [--until TEXT] [--output F] -- PROGRAM...
    tmux capture-pane -ep | scripts/screenshot.py --stdin --output screen.svg

Each --say is typed and sent, and its answer waited for; each --keys goes to `tmux send-keys` after that; --until names
a text that the screen must then show. Needs Python 3.9 and, unless --stdin is given, tmux.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import unicodedata
from html import escape

CELL_WIDTH, CELL_HEIGHT, FONT_SIZE = 8.4, 18.0, 14.0
PADDING, TITLE_BAR = 14.0, 34.0
BACKGROUND, FOREGROUND, FRAME = "#16181d", "#d7dae0", "#2a2e37"
PALETTE = [
    "#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d7dae0",
    "#5c6370", "#ef7a84", "#a9d48a", "#f0cd8b", "#74bdfa", "#d58aeb", "#67c7d3", "#ffffff",
]  # fmt: skip
PATIENCE_S = 120.0


class Style:
    """How a run of text looks."""

    def __init__(self):
        self.foreground = self.background = None
        self.bold = self.dim = self.italic = self.underline = self.reverse = False

    def copy(self):
        other = Style()
        other.__dict__.update(self.__dict__)
        return other

    def apply(self, codes):
        """Takes in the numbers of one `ESC [ ... m`."""
        numbers = [int(code or 0) for code in re.split("[;:]", codes)]
        while numbers:
            code = numbers.pop(0)
            if code == 0:
                self.__init__()
            elif code in (1, 2, 3, 4, 7):
                setattr(self, {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse"}[code], True)
            elif code == 22:
                self.bold = self.dim = False
            elif code in (23, 24, 27):
                setattr(self, {23: "italic", 24: "underline", 27: "reverse"}[code], False)
            elif code in (38, 48):
                name = "foreground" if code == 38 else "background"
                if numbers[:1] == [5]:
                    setattr(self, name, indexed(numbers[1]))
                    del numbers[:2]
                elif numbers[:1] == [2]:
                    setattr(self, name, "#%02x%02x%02x" % tuple(numbers[1:4]))
                    del numbers[:4]
            elif 30 <= code <= 37:
                self.foreground = PALETTE[code - 30]
            elif 90 <= code <= 97:
                self.foreground = PALETTE[code - 82]
            elif 40 <= code <= 47:
                self.background = PALETTE[code - 40]
            elif 100 <= code <= 107:
                self.background = PALETTE[code - 92]
            elif code == 39:
                self.foreground = None
            elif code == 49:
                self.background = None


def indexed(number):
    """A colour of the table of 256."""
    if number < 16:
        return PALETTE[number]
    if number >= 232:
        return "#" + "%02x" % (8 + 10 * (number - 232)) * 3
    levels = [0, 95, 135, 175, 215, 255]
    number -= 16
    return "#%02x%02x%02x" % (levels[number // 36], levels[number // 6 % 6], levels[number % 6])


def width(character):
    """Cells that a character takes."""
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def runs(line, style):
    """Pieces of one line as (column, cells, text, style). The style goes on from line to line."""
    column, start, text = 0, 0, ""
    out = []
    for token in re.finditer(r"\x1b\[([0-9;:]*)m|\x1b[()].|\x0e|\x0f|(.)", line):
        character = token.group(2)
        if character is not None:
            text += character
            column += width(character)
        elif token.group(1) is not None:
            if text:
                out.append((start, column - start, text, style.copy()))
            start, text = column, ""
            style.apply(token.group(1))
    if text:
        out.append((start, column - start, text, style.copy()))
    return out


def draw_run(x, y, cells, text, style):
    """One run as SVG: its background, and its text stretched to exactly its cells."""
    foreground, background = style.foreground or FOREGROUND, style.background
    if style.reverse:
        foreground, background = background or BACKGROUND, foreground
    out = []
    if background:
        out.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{cells * CELL_WIDTH:.1f}" height="{CELL_HEIGHT}" fill="{background}"/>'
        )
    left = len(text) - len(text.lstrip(" "))
    shown = text.strip(" ")
    if shown:
        cells = sum(width(character) for character in shown)
        marks = [f'fill="{foreground}"']
        marks += ['font-weight="bold"'] if style.bold else []
        marks += ['font-style="italic"'] if style.italic else []
        marks += ['text-decoration="underline"'] if style.underline else []
        marks += ['opacity="0.62"'] if style.dim else []
        out.append(
            f'<text x="{x + left * CELL_WIDTH:.1f}" y="{y + 13.4:.1f}" textLength="{cells * CELL_WIDTH:.1f}" '
            f'lengthAdjust="spacingAndGlyphs" {" ".join(marks)}>{escape(shown)}</text>'
        )
    return out


def svg(screen, columns, rows, title):
    """A screen, as `tmux capture-pane -ep` prints it, in a window."""
    wide = columns * CELL_WIDTH + 2 * PADDING
    tall = rows * CELL_HEIGHT + TITLE_BAR + PADDING
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {tall:.0f}" width="{wide:.0f}" '
        f'height="{tall:.0f}" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" '
        f'font-size="{FONT_SIZE}" xml:space="preserve">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{wide:.0f}" height="{tall:.0f}" rx="9" fill="{FRAME}"/>',
        f'<rect x="1" y="{TITLE_BAR - 6:.0f}" width="{wide - 2:.0f}" height="{tall - TITLE_BAR + 5:.0f}" rx="8" '
        f'fill="{BACKGROUND}"/>',
    ]
    for number, colour in enumerate((PALETTE[1], PALETTE[3], PALETTE[2])):
        out.append(f'<circle cx="{18 + 20 * number}" cy="14" r="5.5" fill="{colour}"/>')
    out.append(
        f'<text x="{wide / 2:.0f}" y="19" text-anchor="middle" fill="{FOREGROUND}" opacity="0.7" font-size="13">'
        f"{escape(title)}</text>"
    )
    style = Style()
    for number, line in enumerate(screen.split("\n")[:rows]):
        for column, cells, text, look in runs(line, style):
            out += draw_run(PADDING + column * CELL_WIDTH, TITLE_BAR + number * CELL_HEIGHT, cells, text, look)
    out.append("</svg>")
    return "\n".join(out) + "\n"


class Tmux:
    """A program in a tmux server of its own."""

    def __init__(self, program, columns, rows):
        self.socket = os.path.join(tempfile.mkdtemp(prefix="screenshot-"), "tmux")
        size = ["-x", str(columns), "-y", str(rows)]
        self("-f", "/dev/null", "new-session", "-d", "-s", "screen", *size, *program)
        self("set-option", "-g", "status", "off")
        self("resize-window", "-t", "screen", *size)

    def __call__(self, *arguments):
        command = ["tmux", "-S", self.socket, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def text(self):
        return self("capture-pane", "-p", "-t", "screen")

    def wait(self, holds, what):
        deadline = time.monotonic() + PATIENCE_S
        while not holds(self.text()):
            if time.monotonic() > deadline:
                sys.exit(f"waited in vain for {what}; the screen shows\n{self.text()}")
            time.sleep(0.1)


def capture(options):
    tmux = Tmux(options.program, options.columns, options.rows)
    try:
        tmux.wait(lambda text: "● ready" in text, "the model")
        for text in options.say:
            tmux("send-keys", "-t", "screen", "-l", text)
            tmux.wait(lambda screen: f"❯ {text}" in screen, "the draft")
            time.sleep(0.1)
            tmux("send-keys", "-t", "screen", "Enter")
            time.sleep(0.3)
            if not text.startswith("/"):
                tmux.wait(lambda screen: "● ready" in screen, "the answer")
        for keys in options.keys:
            tmux("send-keys", "-t", "screen", keys)
        if options.until:
            tmux.wait(lambda text: options.until in text, options.until)
        time.sleep(0.5)
        return tmux("capture-pane", "-ep", "-t", "screen")
    finally:
        tmux("kill-server")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=112)
    parser.add_argument("--rows", type=int, default=34)
    parser.add_argument("--say", action="append", default=[])
    parser.add_argument("--keys", action="append", default=[])
    parser.add_argument("--until")
    parser.add_argument("--title", default="dormouse")
    parser.add_argument("--output", default="-")
    parser.add_argument("--stdin", action="store_true", help="read a captured screen instead of running a program")
    parser.add_argument("program", nargs="*")
    options = parser.parse_args()
    if options.stdin == bool(options.program):
        parser.error("either --stdin or a program, please")
    screen = sys.stdin.read() if options.stdin else capture(options)
    picture = svg(screen, options.columns, options.rows, options.title)
    if options.output == "-":
        sys.stdout.write(picture)
    else:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(picture)


if __name__ == "__main__":
    main()
