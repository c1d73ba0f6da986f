// What a model folder of the sentence-transformers package says of the vectors that its model makes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hone/token_vectors.h"
#include "nn/splade.h"
#include "nn/text_embedding.h"
#include "nn/vector_module.h"

namespace hone::hub {

// One that makes other vectors of the pooled ones, with weights of its own in a folder of this name.
struct SentenceModule {
  std::string path;
  nn::VectorModuleForm form;
};

// What they say. Of a sparse encoder `splade`, which stands in place of pooling, normalizing and modules. Of one whose
// texts have a vector of each token `token_vectors`, in place of pooling.
struct SentenceFolder {
  nn::Pooling pooling = nn::Pooling::mean;
  bool normalize = false;
  std::optional<std::int64_t> max_length = {};      // tokens of a text
  std::map<std::string, std::string> prompts = {};  // by name: what stands before a text
  std::string default_prompt = {};                  // its name; "": none, or an empty one
  std::optional<std::int64_t> dims = {};            // only so many numbers of a vector are used (truncate_dim)
  std::string similarity = "cosine";                // what vectors are compared by
  std::vector<SentenceModule> modules = {};         // between pooling and normalizing, in their order
  std::optional<nn::SpladeForm> splade = {};
  std::optional<TokenVectorOptions> token_vectors = {};
  std::optional<std::int64_t> max_active_dims = {};  // of splade: so many of the largest weights stay

  // Of the first of these names that there is; "": of none.
  std::string prompt(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (const auto found = prompts.find(name); found != prompts.end()) return found->second;
    return "";
  }
};

}  // namespace hone::hub
