// The tokenizer in a model's folder, which may have none.
#pragma once

#include <filesystem>
#include <memory>

#include "hone/text.h"

namespace hone::hub {

// As load_tokenizer(folder); where the folder has no file of tokens: "none", which rows of ids can do with.
std::shared_ptr<const Tokenizer> own_tokenizer(const std::filesystem::path& folder);

}  // namespace hone::hub
