// Folders of models that tests make.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace hone::test {

// Tensors in fp32, or in fp8, as a file.
inline void write_tensors(const std::filesystem::path& file, const std::map<std::string, at::Tensor>& tensors) {
  nlohmann::ordered_json header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor dense = tensor.contiguous();
    const std::size_t begin = data.size();
    data.append(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
    const char* type = tensor.scalar_type() == at::kFloat8_e4m3fn ? "F8_E4M3" : "F32";
    header[name] = {{"dtype", type}, {"shape", dense.sizes().vec()}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump(), size(8, '\0');
  text.resize((text.size() + 7) / 8 * 8, ' ');
  for (int i = 0; i < 8; ++i) size[i] = static_cast<char>(text.size() >> (8 * i));
  std::ofstream(file, std::ios::binary) << size << text << data;
}

}  // namespace hone::test
