// Starting, copying and bounding the text under work.
#include "text/parts/aligned.h"

#include <fmt/format.h>

#include <algorithm>

namespace hone::text {
namespace {

constexpr std::size_t kMaxInput = std::size_t{1} << 30;  // offsets have 32 bits, and a text may grow

}  // namespace

void Work::start(std::string_view input) {
  if (input.size() > kMaxInput)
    throw Error(ErrorKind::data,
                fmt::format("text to tokenize: too long; got {} bytes, expected at most {}", input.size(), kMaxInput))
        .hint("cut it into documents");
  input_ = input;
  rewritten_ = false;
  pieces.clear();
  if (!input.empty()) pieces.push_back({0, static_cast<std::uint32_t>(input.size()), -1});
}

void Work::copy_to(Aligned& to, const Piece& piece) const {
  if (rewritten_) return to.append(now_, piece.begin, piece.end);
  const std::string_view part = text(piece);
  to.text += part;
  const std::size_t first = to.origins.size();
  to.origins.resize(first + part.size());
  for (std::size_t at = 0; at < part.size();) {
    const std::size_t next = std::min(at + utf8_length(part[at]), part.size());
    const Origin origin{static_cast<std::uint32_t>(piece.begin + at), static_cast<std::uint32_t>(piece.begin + next)};
    for (; at < next; ++at) to.origins[first + at] = origin;
  }
}

void Aligned::check_size() const {
  if (text.size() > limit || text.size() > UINT32_MAX)
    throw Error(ErrorKind::data, fmt::format("text to tokenize: the tokenizer made it longer than {} bytes", limit))
        .hint("is the normalizer of its tokenizer.json damaged?");
}

}  // namespace hone::text
