#!/usr/bin/env bash
# tests/build/headers.sh -- every public header compiles alone. Arguments: COMPILER LANGUAGE STANDARD INCLUDE_DIR
set -euo pipefail
compiler=$1 language=$2 standard=$3 include_dir=$4

status=0
cd "$include_dir"
while read -r header; do
    echo "#include <$header>" |
        "$compiler" -x "$language" -std="$standard" -pedantic -Wall -Wextra -Wundef -Wshadow -Werror -I. -fsyntax-only - || {
        echo "$header does not compile alone as $standard with $compiler"
        status=1
    }
done < <(find teaspan -name '*.h')
exit $status
