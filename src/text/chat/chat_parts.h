// Parts of a message that are learnt or not, as Axolotl's `train_detail` says them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/text.h"
#include "text/jinja/value.h"

namespace hone::text {

inline constexpr std::string_view kPartsField = "train_detail";

// Characters [begin, end] of a message's content, both inclusive, whether they are learnt.
struct MessagePart {
  std::int64_t begin = 0, end = 0;
  bool train = true;
};
// What a message (a dict) says of its parts; empty: nothing. Throws Error(data) that begins with `where`.
std::vector<MessagePart> parts_of(const jinja::Value& message, const std::string& where);

// Which of the tokens that hold a byte of text[begin, end), the message's own, are learnt: those in a part that is.
// A token that a part's edge cuts is in it with more than one character, as in Axolotl. content: as it stands in the
// message; the template may have stripped it. nullopt: it is not found there, or found twice.
struct LearntTokens {
  std::size_t first = 0;  // the token that `learnt` begins with
  std::vector<bool> learnt;
};
std::optional<LearntTokens> learnt_tokens(const Encoding& encoding, std::string_view text, std::size_t begin,
                                          std::size_t end, std::string_view content,
                                          const std::vector<MessagePart>& parts);

}  // namespace hone::text
