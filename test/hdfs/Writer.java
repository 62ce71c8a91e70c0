import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;

/** Does what its standard input says, and answers each line: Hadoop's own client, which WebHDFS is not. */
public class Writer {
  public static void main(String[] args) throws Exception {
    DistributedFileSystem hdfs = (DistributedFileSystem) DistributedFileSystem.get(new Configuration());
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    FSDataOutputStream out = null;
    for (String line; (line = in.readLine()) != null; ) {
      String[] words = line.split(" ", 2);
      String answer = "ok";
      try {
        switch (words[0]) {
          case "create" -> out = hdfs.create(new Path(words[1]), true);
          case "append" -> out = hdfs.append(new Path(words[1]));
          case "write" -> out.write((words[1] + "\n").getBytes(StandardCharsets.UTF_8));
          case "part" -> out.write(words[1].getBytes(StandardCharsets.UTF_8));
          case "hflush" -> out.hflush();
          case "hsync" -> out.hsync();
          case "close" -> out.close();
          case "recover" -> answer = hdfs.recoverLease(new Path(words[1])) ? "ok" : "not yet";
          default -> answer = "what?";
        }
      } catch (Exception e) {
        answer = e.toString().replace('\n', ' ');
      }
      System.out.println(answer);
    }
    Runtime.getRuntime().halt(0); // as a process that ends without closing its file
  }
}
