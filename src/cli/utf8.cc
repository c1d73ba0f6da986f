// In the words in which a tokenizer says the same.
#include "cli/utf8.h"

#include <fmt/format.h>

#include "base/strings.h"

namespace hone::cli {

void require_utf8(std::string_view text, const std::string& what, ErrorKind kind) {
  const auto bad = first_bad_utf8(text);
  if (!bad) return;
  Error error(kind, fmt::format("{}: not UTF-8 at byte {}; got 0x{:02x}", what, *bad,
                                static_cast<unsigned>(static_cast<unsigned char>(text[*bad]))));
  throw kind == ErrorKind::data ? std::move(error).hint("convert it to UTF-8 first") : error;
}

}  // namespace hone::cli
