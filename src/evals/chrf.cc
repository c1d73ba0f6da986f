// chrF and chrF++ of written answers, over all of a set.
#include <fmt/format.h>

#include "evals/chrf_score.h"
#include "evals/written.h"
#include "hone/registry.h"

namespace hone::evals {
namespace {

struct ChrfConfig : WritingSection {
  using Base = WritingSection;
  std::int64_t char_order = 6, word_order = 0;
  double beta = 2;
  bool lowercase = false, whitespace = false;
  static constexpr auto fields() {
    using C = ChrfConfig;
    return std::tuple_cat(
        std::tuple{field("char_order", &C::char_order, "Characters of the longest n-grams.", {.low = 1, .high = 100}),
                   field("word_order", &C::word_order, "Words of the longest n-grams: 0 is chrF, 2 is chrF++.",
                         {.low = 0, .high = 100}),
                   field("beta", &C::beta, "By how much recall counts for more than precision.",
                         {.low = 0, .high = 1000}),
                   field("lowercase", &C::lowercase, "Texts are compared in lower case."),
                   field("whitespace", &C::whitespace, "N-grams of characters have white space in them.")},
        Base::fields());
  }
};

class Chrf final : public WrittenAnswers {
 public:
  using Config = ChrfConfig;
  explicit Chrf(const Config& config)
      : WrittenAnswers("chrf", config),
        options_{static_cast<std::size_t>(config.char_order), static_cast<std::size_t>(config.word_order), config.beta,
                 config.lowercase, config.whitespace} {}

  // In sacrebleu's words.
  std::string signature() const override {
    return fmt::format("case:{}|eff:yes|nc:{}|nw:{}|space:{}", options_.lowercase ? "lc" : "mixed",
                       options_.char_order, options_.word_order, options_.whitespace ? "yes" : "no");
  }

 private:
  void add(const WrittenAnswer& answer, Sums& sums) const override {
    const std::vector<double> counts = chrf_counts(answer.text, answer.references, options_);
    for (std::size_t i = 0; i < counts.size(); ++i) sums[std::to_string(i)] += counts[i];
  }
  std::vector<std::string> own_names() const override { return {"chrf"}; }
  Metrics own_result(const Sums& total, double) const override {
    std::vector<double> counts;
    for (std::size_t i = 0; i < 3 * (options_.char_order + options_.word_order); ++i)
      counts.push_back(total.at(std::to_string(i)));
    return {{"chrf", chrf_score(counts, options_)}};
  }

  const ChrfOptions options_;
};

}  // namespace

void register_chrf(Registries& hone) {
  hone.evals.add<Chrf>("chrf", "chrF and chrF++ of answers that the model writes: for translations.");
}

}  // namespace hone::evals
