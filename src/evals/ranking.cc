// How far up the best of a query's own texts stand by a cross-encoder's scores.
//
// Letters: Q queries, N texts of a query.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "hone/evaluation.h"
#include "hone/registry.h"
#include "nn/finite.h"
#include "nn/pair_scores.h"
#include "nn/text_lists.h"
#include "tensor/host.h"

namespace hone::evals {
namespace {

constexpr std::size_t kPlaces = 10;  // that are looked at

// Of one query: which of its texts are best ones, in the order of the model's scores.
void count_order(const std::vector<bool>& is_best, Sums& sums) {
  const auto discount = [](std::size_t place) { return 1 / std::log2(static_cast<double>(place) + 2); };
  double gained = 0, most = 0, first = 0, precision = 0, found = 0;
  for (std::size_t i = 0; i < is_best.size(); ++i) {
    if (!is_best[i]) continue;
    found += 1, precision += found / static_cast<double>(i + 1);
    if (i >= kPlaces) continue;
    gained += discount(i);
    if (first == 0) first = 1 / static_cast<double>(i + 1);
  }
  for (std::size_t i = 0; i < std::min(kPlaces, static_cast<std::size_t>(found)); ++i) most += discount(i);
  sums["accuracy@1"] += first == 1;
  sums["mrr@10"] += first;
  sums["ndcg@10"] += gained / most;
  sums["map"] += precision / found;
}

class Ranking final : public Evaluation {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit Ranking(const Config&) {}

  RecordKind records() const override { return RecordKind::ranked; }
  void check(const Model& model) const override { nn::require_score(model, "evaluation ranking"); }

  Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const nn::TextLists lists = nn::text_lists(model, output, batch, pass);
    const auto here = [](const Tensor& values_QN) { return host::read(values_QN.to(at::kDouble).contiguous()); };
    const Tensor scores = here(lists.score_QN), worth = here(lists.worth_QN), there = here(lists.there_QN);
    const auto values = host::values<double>(scores);
    if (!std::ranges::all_of(values, [](double one) { return std::isfinite(one); }))
      throw nn::not_finite(model, "a score");
    Sums sums{{"queries", 0}};
    const auto width = static_cast<std::size_t>(scores.size(1));
    for (std::size_t query = 0; query < values.size(); query += width) {
      std::vector<std::size_t> order;
      for (std::size_t i = query; i < query + width; ++i)
        if (host::values<double>(there)[i] != 0) order.push_back(i);
      const auto of = [&](const Tensor& numbers, std::size_t i) { return host::values<double>(numbers)[i]; };
      const auto [worst, most] = std::ranges::minmax_element(order, {}, [&](std::size_t i) { return of(worth, i); });
      const double best = of(worth, *most);
      if (of(worth, *worst) == best) continue;  // any order of them is right
      sums["queries"] += 1;
      std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
      std::vector<bool> is_best;
      for (const std::size_t i : order) is_best.push_back(of(worth, i) == best);
      count_order(is_best, sums);
    }
    return sums;
  }

  std::vector<std::string> names() const override { return {"accuracy@1", "mrr@10", "ndcg@10", "map"}; }

  Metrics result(const Sums& total) const override {
    if (total.at("queries") == 0)
      throw Error(ErrorKind::data, "evaluation: no query with texts of which some are better than others");
    Metrics metrics;
    for (const std::string& name : names()) metrics[name] = total.at(name) / total.at("queries");
    return metrics;
  }
};

}  // namespace

void register_ranking(Registries& hone) {
  hone.evals.add<Ranking>("ranking", "How far up the best of a query's texts stand by a cross-encoder's scores.");
}

}  // namespace hone::evals
