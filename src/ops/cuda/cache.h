// Compiled kernels on disk, so that the next process needs no compiler.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace hone::ops::cuda_table {

std::filesystem::path kernel_cache();  // $XDG_CACHE_HOME/hone/kernels, else below ~/.cache; empty: there is no home

// What the folder has under the name, if it is whole; else what `make` makes, which is put there. Several processes may
// do so at once. A folder that cannot be read or written costs time only.
std::string kept_on_disk(const std::filesystem::path& folder, const std::string& name,
                   const std::function<std::string()>& make);

}  // namespace hone::ops::cuda_table
