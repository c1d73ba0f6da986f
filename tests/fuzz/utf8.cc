// Helpers for text that may be any bytes.
#include "base/strings.h"
#include "fuzz/fuzz.h"

HONE_FUZZ(utf8) {
  using namespace hone;
  const std::string good = with_replaced_utf8(input);
  fuzz::require(is_utf8(good), "replaced text is well-formed");
  fuzz::require(is_utf8(input) == (good == input), "good text stays, and only that");
  const auto bad = first_bad_utf8(input);
  fuzz::require(bad.has_value() != is_utf8(input), "bad text has a bad place");
  if (bad) fuzz::require(is_utf8(input.substr(0, *bad)), "it is well-formed up to there");
  const std::string shown = escape_for_terminal(input, std::string::npos);
  fuzz::require(is_utf8(shown) && escape_for_terminal(shown, std::string::npos) == shown, "escaped text is safe");
  for (const char c : shown) fuzz::require(static_cast<unsigned char>(c) >= 0x20, "no control characters");
  display_width(input);
}
