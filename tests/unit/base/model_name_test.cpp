#include "base/files/model_name.h"

#include <gtest/gtest.h>

namespace echelon::fs {
namespace {

TEST(ModelName, IsAnAbsentFolderInAnAbsentFolder) {
  EXPECT_EQ(
      download_advice("Qwen/Qwen3-0.6B", ": "),
      ": models are not downloaded; run `hf download Qwen/Qwen3-0.6B --local-dir FOLDER`, and name FOLDER");
  for (const char* path : {"model", "./model", "../model", "a/b/model", "/a/model", "a/tokenizer.json",
                           "a/tokenizer.model", "a/model.safetensors", "a/"})
    EXPECT_EQ(download_advice(path, ": "), "") << path;
}

}  // namespace
}  // namespace echelon::fs
