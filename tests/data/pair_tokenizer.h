// A tokenizer that puts two texts together.
#pragma once

#include <string>

#include "data/support.h"

namespace hone::test {

// Bytes, with types: <256> first <257> second <257>.
class PairTokenizer final : public ByteTokenizer {
 public:
  FittedEncoding encode_fitting(const TextPair& texts, std::size_t most, bool from_left) const override {
    std::string first(texts.first), second(texts.second.value_or(""));
    FittedEncoding out;
    const std::size_t around = texts.second ? 3 : 2;
    while (most > 0 && first.size() + second.size() + around > most) {
      std::string& longer = first.size() > second.size() ? first : second;
      longer.erase(from_left ? 0 : longer.size() - 1, 1);
      ++out.cut;
    }
    const auto put = [&](std::int32_t id, std::int32_t type) { out.ids.push_back(id), out.type_ids.push_back(type); };
    put(256, 0);
    for (const unsigned char c : first) put(c, 0);
    put(257, 0);
    if (!texts.second) return out;
    for (const unsigned char c : second) put(c, 1);
    put(257, 1);
    return out;
  }
};

}  // namespace hone::test
