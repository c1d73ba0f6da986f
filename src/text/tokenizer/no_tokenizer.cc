// The tokenizer that is not there.
#include "text/tokenizer/no_tokenizer.h"

#include <fmt/ranges.h>

#include <utility>

#include "base/option_words.h"
#include "base/strings.h"

namespace hone::text {
namespace {

class NoTokenizer final : public Tokenizer {
 public:
  explicit NoTokenizer(std::string why) : why_(std::move(why)) { fingerprint = "none"; }
  Encoding encode(std::string_view, bool) const override { throw missing("a text"); }
  std::string decode(const std::vector<std::int32_t>& ids, bool) const override {
    return fmt::format("{}", fmt::join(ids, " "));
  }
  std::int64_t vocab_size() const override { return 0; }
  std::optional<std::int32_t> id_of(std::string_view) const override { return std::nullopt; }
  std::optional<std::string> token_of(std::int32_t) const override { return std::nullopt; }
  bool is_special(std::int32_t) const override { return false; }

  Error missing(const std::string& what) const {
    return Error(ErrorKind::config, fmt::format("{}, but there is no tokenizer: {}", what, why_))
        .hint("give one by " + option_words("tokenizer") +
              ": bytes, a tokenizer.json or a folder that holds one; rows of input_ids need none");
  }

 private:
  std::string why_;
};

}  // namespace

std::shared_ptr<const Tokenizer> no_tokenizer(std::string why) { return std::make_shared<NoTokenizer>(std::move(why)); }

bool is_none(const Tokenizer& tokenizer) { return dynamic_cast<const NoTokenizer*>(&tokenizer) != nullptr; }

void require_tokenizer(const Tokenizer& tokenizer, const std::string& what) {
  if (const auto* none = dynamic_cast<const NoTokenizer*>(&tokenizer)) throw none->missing(what);
}

}  // namespace hone::text
