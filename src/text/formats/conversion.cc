// The frame of a tokenizer.json that hone writes.
#include "text/formats/conversion.h"

#include <fmt/format.h>

namespace hone::text {

void append_json_string(std::string& to, std::string_view text) {
  to += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      to += '\\';
      to += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      to += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      to += c;
    }
  }
  to += '"';
}

std::string tokenizer_json_text(const TokenizerParts& parts, const std::string& model) {
  OrderedJson added = OrderedJson::array();
  for (const SpecialToken& t : parts.added)
    added.push_back({{"id", t.id},
                     {"content", t.content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", t.special}});
  const OrderedJson frame = {{"version", "1.0"},
                             {"truncation", nullptr},
                             {"padding", nullptr},
                             {"added_tokens", added},
                             {"normalizer", parts.normalizer},
                             {"pre_tokenizer", parts.pre_tokenizer},
                             {"post_processor", parts.post_processor},
                             {"decoder", parts.decoder}};
  std::string text = frame.dump();
  text.back() = ',';
  return text + "\"model\":" + model + "}";
}

}  // namespace hone::text
