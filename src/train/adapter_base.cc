// Comparing a base model with what a checkpoint says of it.
#include "train/adapter_base.h"

#include "base/env.h"
#include "hub/hash.h"
#include "train/state.h"

namespace hone::training {

bool is_own_base(const std::filesystem::path& adapter, const std::filesystem::path& model) {
  const std::filesystem::path state = adapter / "state";
  std::error_code ignored;
  if (!std::filesystem::exists(state / kStateFile, ignored)) return true;
  std::map<std::string, std::string> models;
  try {
    const std::string text = Env::process().open_folder(state).read_file(kStateFile);
    models = state_from_json(text, (state / kStateFile).string()).models;
  } catch (const Error&) {  // damaged, or of a later version: what is asked for does without it
    return true;
  }
  const auto base = models.find(kBaseRole);
  return base == models.end() || base->second == hub::hash_of_folder(model);
}

}  // namespace hone::training
