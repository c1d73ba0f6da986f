// A step that is not finite.
#include "train/not_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/program_words.h"
#include "base/shell_words.h"
#include "base/strings.h"
#include "nn/finite.h"
#include "ops/finite.h"

namespace hone::training {
namespace {

constexpr std::size_t kShown = 8;

// Of the micro-batches whose loss is not finite, on any rank; of all when each loss is.
std::vector<std::string> records_of(const Group& group, const std::vector<double>& losses, const Whereabouts& where) {
  const bool any =
      where.world.any(std::any_of(losses.begin(), losses.end(), [](double loss) { return !std::isfinite(loss); }));
  std::vector<std::string> own;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (any && i < losses.size() && std::isfinite(losses[i])) continue;
    for (const Doc& doc : group[i].docs) own.push_back(where.data.record_name(doc.record));
  }
  std::vector<std::string> names;
  for (const std::string& rank : where.world.gather(join(own, "\n")))
    for (const std::string& name : split(rank, '\n'))
      if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

std::string shown(const std::vector<std::string>& records) {
  std::vector<std::string> first(records.begin(),
                                 records.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, records.size())));
  const std::string more = records.size() > kShown ? fmt::format(" and {} more", records.size() - kShown) : "";
  return join(first, ", ") + more;
}

std::string text_of(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

void write_if_possible(const Folder& folder, const std::string& file, const std::string& text) {
  try {
    folder.replace_file(file, text);
  } catch (const Error& error) {
    log::warning("{}", error.what());
  }
}

}  // namespace

std::string bad_weight(const Model& model, const RunWeights& weights) {
  std::string name = nn::first_not_finite(model);
  if (name.empty() && weights.shared_out())
    weights.each([&](const std::string& one, const Tensor& value) {
      if (name.empty() && !ops::all_finite(value)) name = one;
    });
  return name;
}

bool check_finite(const PendingUpdate& update, const Updater& updater, const Whereabouts& where) {
  const StepReport& report = update.report;
  if (std::isfinite(report.loss()) && std::isfinite(report.grad_norm)) return true;
  const std::string gradient = updater.first_not_finite();
  const BadTensor first = update.first_bad();
  const std::vector<std::string> records = records_of(update.group, update.losses, where);
  const std::string file = fmt::format("{}{}.json", kNotFiniteFile, where.step);
  const std::string launch = where.world.size() > 1 ? fmt::format(" launch -n {}", where.world.size()) : "";
  const std::string replay = where.run ? fmt::format("{}{} train --replay {}", program_words(), launch,
                                                     shell_word((where.run->path() / file).string()))
                                       : "";
  if (where.run) {
    const nlohmann::ordered_json dump{
        {"step", where.step},
        {"loss", json_number(report.loss())},
        {"grad_norm", json_number(report.grad_norm)},
        {"first",
         {{"what", first.what}, {"name", first.name}, {"micro_batch", first.micro_batch}, {"rank", first.rank}}},
        {"first_parameter", gradient},
        {"records", records},
        {"checkpoint", where.saved_step},
        {"ranks", where.world.size()},
        {"replay", replay}};
    if (where.world.is_first()) write_if_possible(*where.run, file, dump.dump(2) + "\n");
  }
  const std::string fact =
      fmt::format("step {}: loss {}, gradient norm {}; first not finite: {}; first bad gradient: {}; records: {}",
                  where.step, text_of(report.loss()), text_of(report.grad_norm), first.text(),
                  gradient.empty() ? "none" : gradient, shown(records));
  if (where.left_out < where.may_leave_out) {
    if (where.world.is_first())
      log::warning("{}; no update, {} of at most {} that trainer.skip_not_finite lets be left out", fact,
                   where.left_out + 1, where.may_leave_out);
    return false;
  }
  const std::string kept =
      where.world.from_first(where.saved_step < 0 ? "there is no checkpoint yet"
                                                  : fmt::format("the last checkpoint is step {}", where.saved_step));
  const std::string spent = where.may_leave_out > 0 ? fmt::format(", after {} that were left out", where.left_out) : "";
  Error error(ErrorKind::not_finite, fmt::format("{}; stopped before the update{}, {}", fact, spent, kept));
  if (!where.run) throw error;
  throw std::move(error).hint(
      fmt::format("a lower optimizer.learning_rate or {} often helps; {} has all records, and {} makes the step once "
                  "more",
                  where.clips ? "a smaller trainer.max_grad_norm" : "trainer.max_grad_norm, which is off,", file,
                  replay));
}

}  // namespace hone::training
