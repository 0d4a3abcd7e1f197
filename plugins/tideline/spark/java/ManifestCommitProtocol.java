package tideline.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.OutputStream;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.spark.internal.io.FileCommitProtocol;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/**
 * Tasks write their files where they stay; the job's end names those that count, in one manifest.
 *
 * <p>Nothing is renamed, and nothing is listed. A file's name holds the job's id and the task
 * attempt's, which Spark gives out once in the life of a driver: two attempts never write one file,
 * however late one of them is. Spark hands commitJob one message per partition: that of the attempt
 * whose success the driver heard of first. What other attempts have written is in no manifest.
 *
 * <p>Compiled by Janino (tideline.launch.java), which knows no lambdas, under a name that stands
 * for this text: a Spark never takes another version of it.
 */
public final class ManifestCommitProtocol extends FileCommitProtocol implements Serializable {

  private static final long serialVersionUID = 1L;

  /** The manifest, in the folder that the job writes. tideline.table.rewriting reads it. */
  private static final String MANIFEST = "_files.json";

  /** Of tideline.documents; later formats can read it. */
  private static final int FORMAT = 3;

  private final String jobId;
  private final String folder;

  /** What this task attempt has begun to write, relative to the folder. */
  private transient List files;

  public ManifestCommitProtocol(String jobId, String folder, boolean dynamicPartitionOverwrite) {
    if (dynamicPartitionOverwrite) {
      throw new UnsupportedOperationException(
          getClass().getName() + " only adds files; partitionOverwriteMode=dynamic replaces some");
    }
    this.jobId = jobId;
    this.folder = folder;
  }

  @Override
  public void setupJob(JobContext job) {}

  @Override
  public void setupTask(TaskAttemptContext task) {
    files = new ArrayList();
  }

  @Override
  public String newTaskTempFile(TaskAttemptContext task, Option<String> dir, String ext) {
    TaskAttemptID attempt = task.getTaskAttemptID();
    String name =
        String.format("part-%05d-%d-", attempt.getTaskID().getId(), attempt.getId()) + jobId + ext;
    String file = dir.isDefined() ? dir.get() + "/" + name : name;
    files.add(file);
    return folder + "/" + file;
  }

  @Override
  public String newTaskTempFileAbsPath(TaskAttemptContext task, String dir, String ext) {
    throw new UnsupportedOperationException(
        getClass().getName() + " writes into " + folder + " only, not into " + dir);
  }

  @Override
  public FileCommitProtocol.TaskCommitMessage commitTask(TaskAttemptContext task) {
    return new FileCommitProtocol.TaskCommitMessage(files.toArray(new String[0]));
  }

  /** Deletes what the attempt has written; whatever stays is in no manifest. */
  @Override
  public void abortTask(TaskAttemptContext task) {
    for (Object file : files) {
      Path path = new Path(folder + "/" + file);
      try {
        path.getFileSystem(task.getConfiguration()).delete(path, false);
      } catch (IOException error) {
        System.err.println(path + " of a failed task stays: " + error);
      }
    }
  }

  @Override
  public void commitJob(JobContext job, Seq<FileCommitProtocol.TaskCommitMessage> tasks) {
    List committed = new ArrayList();
    Iterator each = tasks.iterator();
    while (each.hasNext()) {
      Object named = ((FileCommitProtocol.TaskCommitMessage) each.next()).obj();
      Collections.addAll(committed, (String[]) named);
    }
    Collections.sort(committed);
    Map manifest = new LinkedHashMap();
    manifest.put("format", FORMAT);
    manifest.put("files", committed);
    Path path = new Path(folder, MANIFEST);
    try {
      FileSystem store = path.getFileSystem(job.getConfiguration());
      OutputStream output = store.create(path, true);
      output.write(new ObjectMapper().writeValueAsBytes(manifest));
      output.close();
    } catch (IOException error) {
      throw new UncheckedIOException("the files were written, their manifest was not", error);
    }
  }

  /** The folder is the attempt's own: its run deletes it, or maintenance does. */
  @Override
  public void abortJob(JobContext job) {}
}
