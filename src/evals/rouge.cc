// ROUGE of written answers: how many of a reference's words, pairs of words and longest sequences of words they have.
#include "evals/rouge_score.h"
#include "evals/written.h"
#include "hone/registry.h"

namespace hone::evals {
namespace {

struct RougeConfig : WritingSection {
  using Base = WritingSection;
  bool use_stemmer = false;
  static constexpr auto fields() {
    using C = RougeConfig;
    return std::tuple_cat(std::tuple{field("use_stemmer", &C::use_stemmer,
                                           "English words of more than three letters are compared by their stems.")},
                          Base::fields());
  }
};

class Rouge final : public WrittenAnswers {
 public:
  using Config = RougeConfig;
  explicit Rouge(const Config& config) : WrittenAnswers("rouge", config), use_stemmer_(config.use_stemmer) {}

  std::string signature() const override { return std::string("stemmer:") + (use_stemmer_ ? "porter" : "no"); }

 private:
  // F of each kind; the mean over answers, as Hugging Face's scripts report it.
  void add(const WrittenAnswer& answer, Sums& sums) const override {
    const RougeScores scores = rouge_score(answer.references, answer.text, use_stemmer_);
    sums["rouge1"] += scores.one.f, sums["rouge2"] += scores.two.f;
    sums["rougeL"] += scores.longest.f, sums["rougeLsum"] += scores.longest_of_lines.f;
  }
  std::vector<std::string> own_names() const override { return {"rouge1", "rouge2", "rougeL", "rougeLsum"}; }
  Metrics own_result(const Sums& total, double answers) const override {
    Metrics made;
    for (const std::string& name : own_names()) made[name] = total.at(name) / answers;
    return made;
  }

  const bool use_stemmer_;
};

}  // namespace

void register_rouge(Registries& hone) {
  hone.evals.add<Rouge>("rouge", "ROUGE of answers that the model writes: for summaries.");
}

}  // namespace hone::evals
