// Metaspace: blanks become a visible mark, one is put in front, and each mark begins a word.
#include <fmt/format.h>

#include "base/strings.h"
#include "text/parts/component.h"
#include "text/parts/pre_tokenizers.h"
#include "text/parts/split_parts.h"

namespace hone::text {
namespace {

class MetaspaceWords final : public PreTokenizer {
 public:
  MetaspaceWords(const Json& config, const std::string& where) : split_(get_bool(config, "split", where, true)) {
    append_utf8(mark_, get_char(config, "replacement", where));
    const bool prefix = get_bool(config, "add_prefix_space", where, true);
    const std::string scheme = get_string(config, "prepend_scheme", where, prefix ? "always" : "never");
    if (scheme != "always" && scheme != "first" && scheme != "never")
      fail_at(where + ".prepend_scheme", fmt::format("got {}, expected always, first or never", hone::quoted(scheme)));
    if (!prefix && scheme != "never") fail_at(where, "add_prefix_space is false, but prepend_scheme is not never");
    scheme_ = scheme[0];
  }

  void apply(Work& work, RegexScratch&) const override {
    work.rewrite([&](const Piece& piece, Aligned& to) { mark_spaces(work, piece, to); });
    if (!split_) return;
    std::vector<Part> parts;
    work.split([&](const Piece& piece, std::vector<Piece>& out) {
      parts.clear();
      std::uint32_t done = piece.begin;
      const std::string_view text = work.text(piece);
      for (std::size_t at = text.find(mark_); at != std::string_view::npos; at = text.find(mark_, at + mark_.size())) {
        const auto begin = piece.begin + static_cast<std::uint32_t>(at);
        add_match(parts, done, begin, begin + static_cast<std::uint32_t>(mark_.size()));
      }
      if (done != piece.end) parts.push_back({done, piece.end, false});
      cut(parts, Behavior::merged_with_next, out);
    });
  }

 private:
  void mark_spaces(const Work& work, const Piece& piece, Aligned& to) const {
    const std::string_view text = work.text();
    const Origin first = work.origin(piece.begin, piece.begin + 1);
    const bool marked = text[piece.begin] == ' ' || work.text(piece).starts_with(mark_);
    if (!marked && (scheme_ == 'a' || (scheme_ == 'f' && first.begin == 0))) to.append(mark_, first);
    std::uint32_t done = piece.begin;
    const auto copy = [&](std::uint32_t end) {
      if (done < end) work.copy_to(to, {done, end, -1});
    };
    for (std::uint32_t at = piece.begin; at < piece.end; ++at) {
      if (text[at] != ' ') continue;
      copy(at);
      to.append(mark_, work.origin(at, at + 1));
      done = at + 1;
    }
    copy(piece.end);
  }

  std::string mark_;
  bool split_;
  char scheme_;  // first letter of always, first, never
};

}  // namespace

std::unique_ptr<PreTokenizer> make_metaspace(const Json& config, const std::string& where) {
  return std::make_unique<MetaspaceWords>(config, where);
}

}  // namespace hone::text
