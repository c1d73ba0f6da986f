// Letters: B documents, T time, D hidden, N places that are asked about, V vocabulary, K tokens said of each.
#include "cli/teacher_says.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "generate/rows.h"
#include "hone/error.h"
#include "hone/layers.h"
#include "tensor/host.h"

namespace hone::cli {
namespace {

constexpr std::int64_t kPlacesAtOnce = 128;
constexpr float kNever = -1e9f;  // what JSON can hold of a token that cannot come
constexpr std::int32_t kNoLabel = -100;

bool is_asked(const Tokens& document, std::size_t token) { return token > 0 && document.labels[token] != kNoLabel; }

// Of hidden states, each of which says what comes after it.
void append_likeliest(const Tensor& logits_NV, const AskTeacher& how, TeacherLogProbs& all) {
  const Tensor wide_NV = logits_NV.to(at::toOpMathType(logits_NV.scalar_type()));
  const auto [log_probs_NK, ids_NK] = at::log_softmax(wide_NV / how.temperature, -1).topk(how.top_k, -1);
  const Tensor log_probs = host::read(log_probs_NK.to(at::kFloat).contiguous()), ids = host::read(ids_NK.contiguous());
  for (const float one : host::values<float>(log_probs)) {
    if (std::isnan(one)) throw Error(ErrorKind::checkpoint, "the teacher's logits: not a number; expected finite ones");
    all.log_probs.push_back(std::max(one, kNever));
  }
  for (const std::int64_t id : host::values<std::int64_t>(ids)) all.ids.push_back(static_cast<std::int32_t>(id));
}

}  // namespace

std::vector<TeacherLogProbs> teacher_says(const CausalLm& model, const std::vector<Tokens>& documents,
                                          const AskTeacher& how) {
  const c10::NoGradGuard no_grad;
  std::vector<std::span<const std::int32_t>> rows;
  for (const Tokens& one : documents) rows.emplace_back(one.ids);
  const Batch batch = generate::rows_of_ids(rows).to(model.device());
  Pass pass(batch);
  const Tensor hidden_MD = model.forward(batch, pass).hidden_BTD.flatten(0, 1);
  std::vector<std::int64_t> before;  // each token that is asked about
  for (std::size_t i = 0; i < documents.size(); ++i)
    for (std::size_t t = 0; t < documents[i].ids.size(); ++t)
      if (is_asked(documents[i], t)) before.push_back(static_cast<std::int64_t>(i) * batch.length() +
                                                      static_cast<std::int64_t>(t) - 1);
  const Tensor index_N = host::tensor_of(before, {std::ssize(before)}).to(hidden_MD.device());
  TeacherLogProbs all;
  for (std::int64_t first = 0; first < index_N.numel(); first += kPlacesAtOnce) {
    const Tensor some = index_N.narrow(0, first, std::min(kPlacesAtOnce, index_N.numel() - first));
    append_likeliest(model.head().logits(hidden_MD.index_select(0, some), pass), how, all);
  }
  std::vector<TeacherLogProbs> made(documents.size());
  auto id = all.ids.begin();
  auto log_prob = all.log_probs.begin();
  for (std::size_t i = 0; i < documents.size(); ++i)
    for (std::size_t t = 0; t < documents[i].ids.size(); ++t) {
      const std::int64_t count = is_asked(documents[i], t) ? how.top_k : 0;
      made[i].counts.push_back(static_cast<std::uint32_t>(count));
      made[i].ids.insert(made[i].ids.end(), id, id + count), id += count;
      made[i].log_probs.insert(made[i].log_probs.end(), log_prob, log_prob + count), log_prob += count;
    }
  return made;
}

}  // namespace hone::cli
