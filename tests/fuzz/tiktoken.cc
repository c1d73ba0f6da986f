// A tiktoken file, and base64.
#include "fuzz/fuzz.h"
#include "text/formats/base64.h"
#include "text/formats/conversion.h"

HONE_FUZZ(tiktoken) {
  using namespace hone;
  if (const auto bytes = text::from_base64(input))
    fuzz::require(text::to_base64(*bytes) == input, "what was read is written the same");
  if (text::is_tiktoken(input)) text::tiktoken_files(input, "fuzz");
}
