// Answers in the making: a step gives each of them a token, and between two steps others may join and leave.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "generate/kept_texts.h"
#include "generate/rows.h"
#include "hone/error.h"
#include "hone/generate.h"
#include "hone/random.h"

namespace hone::text {
class TokenForm;
}
namespace hone::nn {
class Decoder;
class KvCache;
}  // namespace hone::nn

namespace hone::generate {

// One answer that is asked for.
struct Asked {
  std::size_t number = 0;  // the caller's own, by which he is told of it
  std::span<const std::int32_t> prompt;
  std::shared_ptr<const GenerateConfig> config;
  Random random;
  std::int64_t most = 0;        // its tokens; answer_limit() of the prompt, or fewer
  std::int64_t log_probs = -1;  // of how many likeliest tokens they are wanted beside the chosen one's; below 0: none
  std::span<const DocPicture> pictures = {};  // of the prompt, as documents have them
  std::shared_ptr<text::TokenForm> form = {};  // that it is held to, in place of the configuration's; null: that one
};

// Logarithms of probabilities by the model's logits, before temperature and filters.
struct TokenLogProbs {
  double chosen = 0;
  std::vector<std::pair<std::int32_t, double>> likeliest;  // of equal ones the lower id first
};
// Of a row of logits: the token's, and those of the `count` likeliest.
TokenLogProbs log_probs_of(std::span<const float> logits, std::int32_t id, std::int64_t count);

// How long the answer to a prompt of so many tokens may be, by the configuration. Of a model that reads sources it is
// the answer alone that counts, with what it is begun with.
std::int64_t most_tokens(const Model& model, const GenerateConfig& config, std::int64_t prompt);
// The same as far as the model has learned positions. The last token of an answer is never read, so that it needs none.
std::int64_t answer_limit(const Model& model, const GenerateConfig& config, std::int64_t prompt);

// Throws Error(data) for a prompt that cannot be continued; `where` says which it is.
void check_prompt(const Model& model, const GenerateConfig& config, std::span<const std::int32_t> prompt,
                  const std::string& where);
// The same of pictures, which are the prompt's: each of its tokens that stands for one has to be theirs.
void check_pictures(const Model& model, std::span<const std::int32_t> prompt, std::span<const DocPicture> pictures,
                    const std::string& where);
// Error(config): stop texts or ends that the tokenizer or the model does not have.
void check_ends(const Model& model, const Tokenizer& tokenizer, const GenerateConfig& config);

// Another model, of the same tokens, that answers are drawn with: from the geometric mixture of both.
struct MixedWith {
  const CausalLm& model;
  std::string adapter;
  double share = 0;  // its own; the rest is the model's
};

// Logits [rows, V] of each row's last token, on the model's device. A cache that holds nothing yet takes the rows in as
// prompts, and of a model that reads sources as sources, whose answers are begun.
at::Tensor next_logits(const CausalLm& model, const std::string& adapter,
                       const std::vector<std::span<const std::int32_t>>& rows, nn::KvCache& cache,
                       const RowPictures& pictures = {});

// Not thread-safe; under no-grad. An answer depends on what was asked, not on those beside it.
class Engine {
 public:
  // A token of answer `number`; text: what has become final by it, which may be empty. log_probs: null, not asked for.
  using Told =
      std::function<void(std::size_t number, std::int32_t id, const std::string& text, const TokenLogProbs* log_probs)>;
  using Finished = std::function<void(std::size_t number, const Generated& answer)>;
  // An answer that cannot go on, and is there no longer: its form has too many ways to go on.
  using Failed = std::function<void(std::size_t number, const Error& why)>;

  // For `rows` answers at a time. REQUIRES: model and tokenizer outlive it; the model's weights stay as they are.
  Engine(const CausalLm& model, const Tokenizer& tokenizer, std::string adapter, std::int64_t rows);
  ~Engine();
  // Texts leave what they left in the cache, in so much memory at most: others that begin with the same tokens are read
  // from there on. REQUIRES: there are no answers; the model does not read sources.
  void keep_texts(std::int64_t bytes) { keep_texts_in(std::make_shared<KeptTexts>(bytes)); }
  void keep_texts_in(std::shared_ptr<PastTexts> kept) { kept_ = std::move(kept); }  // REQUIRES: nobody is mixed with
  void mix_with(MixedWith other) { other_.emplace(std::move(other)); }  // REQUIRES: there are no answers; it lives on

  // One pass over the prompts, which gives each its first token; what is asked several times in a row is read once.
  // REQUIRES: there is room; the prompts were checked and live until this returns; most > 0.
  // Returns how many of each prompt's tokens were not read, as they were kept.
  std::vector<std::int64_t> add(const std::vector<Asked>& asked);
  // Tells of each answer's newest token, and makes the next one of those that go on. What `told` throws ends the step,
  // and with it all answers. Where nobody is to be told of an answer that cannot go on, its Error is thrown.
  void step(const Told& told, const Finished& finished, const Failed& failed = {});
  void leave(std::size_t number);  // an answer that nobody wants any longer
  std::int64_t rows() const { return std::ssize(lines_); }
  GenerateStats& stats() { return stats_; }

 private:
  struct Line;
  using Lines = std::vector<std::unique_ptr<Line>>;
  struct Caches {
    std::unique_ptr<nn::KvCache> own, other;  // other: of who is mixed with, if there is one
  };
  // Prompts that were read: each one's logits and row of the caches, and how many of its tokens were kept.
  struct Begun {
    at::Tensor logits_RV;
    Caches caches;
    std::vector<std::int64_t> rows, kept;
  };
  Begun read(const std::vector<std::span<const std::int32_t>>& prompts);
  Begun read_all(const std::vector<std::span<const std::int32_t>>& prompts, const RowPictures& pictures = {});
  Begun read_with_pictures(const std::vector<Asked>& asked);
  Begun begin(const std::vector<Asked>& asked, const Lines& lines, std::vector<std::int32_t>& ids);
  void keep_text(std::size_t row);
  at::Tensor mixed_logits(const std::vector<std::span<const std::int32_t>>& rows, Caches& caches,
                          const RowPictures& pictures = {}) const;
  std::vector<std::int32_t> before(const Asked& asked) const;
  std::unique_ptr<Line> make_line(const Asked& asked) const;
  void choose_first(const Lines& lines, const at::Tensor& logits_RV, std::vector<std::int32_t>& ids);
  void go_on();
  bool take(Line& line, std::int32_t id, const Told& told);
  void drop_finished();
  std::vector<std::int32_t> ends_of(const GenerateConfig& config) const;
  void check_finite() const;

  const CausalLm& model_;
  const Tokenizer& tokenizer_;
  std::string adapter_;
  std::int64_t most_rows_;
  Lines lines_;
  std::vector<std::int32_t> ids_;  // each line's newest token, which is yet to be told
  std::optional<MixedWith> other_;
  std::shared_ptr<PastTexts> kept_;
  Caches caches_;
  std::unique_ptr<nn::Decoder> decoder_;
  GenerateStats stats_;
};

}  // namespace hone::generate
