// Looking for what is not finite.
#include "train/not_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/strings.h"

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

void write_if_possible(const Folder& folder, const std::string& file, const std::string& text) {
  try {
    folder.replace_file(file, text);
  } catch (const Error& error) {
    log::warning("{}", error.what());
  }
}

}  // namespace

void check_finite(const PendingUpdate& update, const Updater& updater, const Whereabouts& where) {
  const StepReport& report = update.report;
  if (std::isfinite(report.loss()) && std::isfinite(report.grad_norm)) return;
  const std::string parameter = updater.first_not_finite();
  const std::vector<std::string> records = records_of(update.group, update.losses, where);
  const nlohmann::ordered_json dump{{"step", where.step},
                                    {"loss", json_number(report.loss())},
                                    {"grad_norm", json_number(report.grad_norm)},
                                    {"first_parameter", parameter},
                                    {"records", records}};
  const std::string file = fmt::format("nonfinite-step-{}.json", where.step);
  if (where.world.is_first()) write_if_possible(where.run, file, dump.dump(2) + "\n");
  const std::string kept =
      where.world.from_first(where.saved_step < 0 ? "there is no checkpoint yet"
                                                  : fmt::format("the last checkpoint is step {}", where.saved_step));
  throw Error(
      ErrorKind::not_finite,
      fmt::format(
          "step {}: loss {}, gradient norm {}; first bad gradient: {}; records: {}; stopped before the update, {}",
          where.step, report.loss(), report.grad_norm, parameter.empty() ? "none" : parameter, shown(records), kept))
      .hint("a lower optimizer.learning_rate or a smaller trainer.max_grad_norm often helps; " + file +
            " has all records");
}

}  // namespace hone::training
