// WordLevel: each word is one token or unknown.
#include <fmt/format.h>

#include "base/strings.h"
#include "text/parts/component.h"
#include "text/parts/model.h"

namespace hone::text {
namespace {

class WordLevel final : public Model {
 public:
  WordLevel(const ModelConfig& config, const std::string& where)
      : vocabulary_(read_vocabulary(config.vocab, where + ".vocab")),
        unk_token_(get_string(config.json, "unk_token", where)),
        unk_id_(vocabulary_.find(unk_token_)) {}

  std::unique_ptr<ModelScratch> make_scratch() const override { return std::make_unique<ModelScratch>(); }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void tokenize(std::string_view word, ModelScratch&, std::vector<Token>& out) const override {
    std::int32_t id = vocabulary_.find(word);
    if (id < 0) id = unk_id_;
    if (id < 0) fail_unknown(word, unk_token_);
    out.push_back({id, 0, static_cast<std::uint32_t>(word.size())});
  }

 private:
  Vocabulary vocabulary_;
  std::string unk_token_;
  std::int32_t unk_id_;
};

}  // namespace

std::unique_ptr<Model> make_word_level(const ModelConfig& config, const std::string& where) {
  return std::make_unique<WordLevel>(config, where);
}

}  // namespace hone::text
