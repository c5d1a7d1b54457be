"""Writes tests/fixtures/ops/*.json: what each operator must give, and what plausible mistakes would give.

    python make_fixtures.py [--check]

With --check nothing is written, and files that differ from what would be written are an error.
"""

import argparse
import sys
from pathlib import Path

from cases import kda, mla, moe, mxfp4, norms, residual, whole

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "ops"
LIMIT = 60_000


def main():
    """Writes or checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    FOLDER.mkdir(parents=True, exist_ok=True)
    stale, written = False, set()
    for module in (norms, kda, mla, moe, mxfp4, residual, whole):
        for case in module.cases():
            case.check()
            path, text = FOLDER / f"{case.name}.json", case.json()
            written.add(path)
            assert len(text) < LIMIT, f"{path.name}: {len(text)} bytes"
            if not check:
                path.write_text(text)
            elif not path.exists() or path.read_text() != text:
                stale = True
                print(f"{path.name} differs", file=sys.stderr)
            print(f"{case.name:24} {len(text):6} bytes, tolerance {case.tolerance():.1e}")
            for mistake in case.mistakes:
                print(f"    {mistake:36} {case.distance(mistake) / max(case.tolerance(), 1e-300):9.1e} tolerances away")
    for path in set(FOLDER.glob("*.json")) - written:
        stale = True
        print(f"{path.name} has no case", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
