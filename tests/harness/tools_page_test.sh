#!/usr/bin/env bash
# tools/README.md names every script of tools/golden and tools/compare.
set -euo pipefail
cd "$(dirname "$0")/../.."
bad=0
for script in tools/golden/*.py tools/compare/*; do
  grep -qF "\`$(basename "$script")\`" tools/README.md || { echo "tools/README.md does not name $script"; bad=1; }
done
exit $bad
