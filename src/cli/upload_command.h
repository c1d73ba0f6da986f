// The command line that uploads a folder to the Hugging Face hub; hone itself uploads nothing.
#pragma once

#include <string>
#include <vector>

#include "hone/config_read.h"

namespace hone::cli {

// Options of `hf upload` (huggingface_hub 0.34 and later), by its names.
struct UploadFlags {
  std::string repo, revision, commit_message, commit_description;
  bool private_repo = false, create_pr = false;
  static constexpr auto fields() {
    using C = UploadFlags;
    return std::tuple{
        field("repo", &C::repo,
              "Name on the hub, org/name, for the model card and the upload command; default: the folder's own name."),
        field("revision", &C::revision, "Upload command: the branch, tag or pull request that it goes to."),
        field("commit_message", &C::commit_message, "Upload command: first line of the commit."),
        field("commit_description", &C::commit_description, "Upload command: the rest of it."),
        field("private", &C::private_repo, "Upload command: a repository that it makes is private."),
        field("create_pr", &C::create_pr, "Upload command: open a pull request instead of committing.")};
  }
};

// The name on the hub: as `flags` say, or made of the folder's. Error(usage): it is none.
std::string repository_name(const UploadFlags& flags, const std::string& folder);
// {"hf", "upload", ...}. What is not the model's own stays here: MANIFEST.json.
std::vector<std::string> upload_command(const UploadFlags& flags, const std::string& folder);

}  // namespace hone::cli
