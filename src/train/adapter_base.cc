// Comparing a base model with what a checkpoint says of it.
#include "train/adapter_base.h"

#include <fmt/format.h>

#include "base/env.h"
#include "hub/hash.h"
#include "train/state.h"

namespace hone::training {

std::string changed_base(const std::filesystem::path& adapter, const std::filesystem::path& model) {
  const std::filesystem::path state = adapter / "state";
  std::error_code ignored;
  if (!std::filesystem::exists(state / kStateFile, ignored)) return "";
  std::map<std::string, std::string> models;
  try {
    const std::string text = Env::process().open_folder(state).read_file(kStateFile);
    models = state_from_json(text, (state / kStateFile).string()).models;
  } catch (const Error&) {  // damaged, or of a later version: what is asked for does without it
    return "";
  }
  const auto base = models.find(kBaseRole);
  if (base == models.end() || base->second == hub::hash_of_folder(model)) return "";
  return fmt::format("{}: {} is not the model that this adapter was trained beside, or has changed since",
                     adapter.string(), model.string());
}

}  // namespace hone::training
